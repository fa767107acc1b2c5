// What one does with OpenCV: fill a mask, then ask for the numbers under it, in the box of each polygon.
// fillPoly also sets the pixels that an outline touches, so its count is higher than the number of centres inside.
//
// usage: opencv SCENE sums|histogram REPEATS
#include <opencv2/imgproc.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

#include "scene.h"

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	const scene s = read_scene(argv[1]);
	const bool hist = strcmp(argv[2], "histogram") == 0;
	cv::setNumThreads(1);
	const cv::Mat frame(int(s.height), int(s.width), CV_8UC1, s.frame);
	cv::Mat mask(frame.size(), CV_8UC1);
	std::vector<std::vector<cv::Point>> polygons(s.regions);
	std::vector<cv::Rect> boxes(s.regions);
	for (uint32_t i = 0; i < s.regions; i++) {
		for (uint32_t k = 0; k < s.polygons[i].n; k++) {
			const vertex v = s.polygons[i].v[k];
			// A pixel's centre has whole coordinates there.
			polygons[i].emplace_back(v.x - 128, v.y - 128);
		}
		std::vector<cv::Point> whole;
		for (const cv::Point &p : polygons[i])
			whole.emplace_back(p.x >> 8, p.y >> 8);
		cv::Rect box = cv::boundingRect(whole);
		box.width++;
		box.height++;
		boxes[i] = box & cv::Rect(0, 0, frame.cols, frame.rows);
	}
	double best = 1e9, sum = 0;
	long long count = 0;
	for (int k = atoi(argv[3]); k > 0; k--) {
		const double start = seconds();
		count = 0;
		sum = 0;
		for (uint32_t i = 0; i < s.regions; i++) {
			const cv::Rect box = boxes[i];
			cv::Mat m = mask(box), f = frame(box);
			m.setTo(0);
			cv::fillPoly(m, std::vector<std::vector<cv::Point>>{polygons[i]}, 255, cv::LINE_8, 8, cv::Point(-box.x * 256, -box.y * 256));
			cv::Scalar mean, deviation;
			cv::meanStdDev(f, mean, deviation, m);
			double least, most;
			cv::minMaxLoc(f, &least, &most, nullptr, nullptr, m);
			double n = 0;
			if (hist) {
				cv::Mat h;
				const int channel = 0, bins = 256;
				const float range[] = {0, 256}, *ranges = range;
				cv::calcHist(&f, 1, &channel, m, h, 1, &bins, &ranges);
				n = cv::sum(h)[0];
			} else {
				n = cv::countNonZero(m);
			}
			count += std::llround(n);
			sum += mean[0] * n;
		}
		best = std::min(best, seconds() - start);
	}
	printf("opencv %s %s %.6f %lld %.0f\n", s.name, argv[2], best * 1e3, count, sum);
	return 0;
}
