// What one does with OpenCV: CIE Lab of a picture, then the mean, the deviation and the extrema of its channels. Samples
// are of 8 bits, where polyscan's have 16.
//
// usage: color FRAME WIDTH REPEATS, with a file of red, green and blue bytes
#include <opencv2/imgproc.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	FILE *f = fopen(argv[1], "rb");
	if (!f)
		return 1;
	std::vector<unsigned char> bytes;
	for (unsigned char part[1 << 16]; size_t n = fread(part, 1, sizeof part, f);)
		bytes.insert(bytes.end(), part, part + n);
	fclose(f);
	cv::setNumThreads(1);
	const int width = atoi(argv[2]), height = int(bytes.size() / 3 / width);
	const cv::Mat frame(height, width, CV_8UC3, bytes.data());
	cv::Mat lab, planes[3];
	double best = 1e9;
	cv::Scalar mean, deviation;
	for (int k = atoi(argv[3]); k > 0; k--) {
		const auto start = std::chrono::steady_clock::now();
		cv::cvtColor(frame, lab, cv::COLOR_RGB2Lab);
		cv::meanStdDev(lab, mean, deviation);
		cv::split(lab, planes);
		for (const cv::Mat &p : planes) {
			double least, most;
			cv::Point at, end;
			cv::minMaxLoc(p, &least, &most, &at, &end);
		}
		const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
		best = std::min(best, took.count());
	}
	// As L* of 0 to 100, a* and b*.
	printf("opencv %.3f %.3f %.3f %.3f\n", best, mean[0] / 2.55, mean[1] - 128, mean[2] - 128);
	return 0;
}
